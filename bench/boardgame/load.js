// Plays matches as fast as it goes, a client for each seat: node load.js PORT MATCHES SECONDS; prints moves a second.
const { Client, LobbyClient } = require("boardgame.io/client");
const { SocketIO } = require("boardgame.io/multiplayer");
const { Game, SEATS } = require("./game");

const [port, matches, seconds] = process.argv.slice(2).map(Number);
const server = `http://127.0.0.1:${port}`;
const WARM_UP_MS = 1500;

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function main() {
  const lobby = new LobbyClient({ server });
  const played = Array(matches).fill(0);
  for (let match = 0; match < matches; match++) {
    const { matchID } = await lobby.createMatch(Game.name, { numPlayers: SEATS });
    for (let seat = 0; seat < SEATS; seat++) {
      const playerID = String(seat);
      const joined = await lobby.joinMatch(Game.name, matchID, { playerID, playerName: `player ${seat}` });
      const client = Client({
        game: Game,
        numPlayers: SEATS,
        multiplayer: SocketIO({ server, socketOpts: { transports: ["websocket"] } }),
        matchID,
        playerID,
        credentials: joined.playerCredentials,
        debug: false,
      });
      let answered = -1;
      client.subscribe((state) => {
        if (!state || !state.isConnected) return;
        played[match] = Math.max(played[match], state.G.played);
        if (state.ctx.currentPlayer === playerID && state.G.played !== answered) {
          answered = state.G.played;
          setImmediate(() => client.moves.play(answered % 52));
        }
      });
      client.start();
    }
  }
  await pause(WARM_UP_MS);
  const total = () => played.reduce((sum, moves) => sum + moves, 0);
  const before = total();
  const began = Date.now();
  await pause(seconds * 1000);
  console.log(((total() - before) / (Date.now() - began)) * 1000);
  process.exit(0);
}

main();
