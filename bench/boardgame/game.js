// A trick-taking game as boardgame.io would have it: four hands, of which each seat sees its own.
const SEATS = 4;

exports.Game = {
  name: "tricks",
  setup: () => ({
    hands: Array.from({ length: SEATS }, () => Array.from({ length: 52 }, (_, card) => card)),
    trick: [],
    played: 0,
  }),
  turn: { minMoves: 1, maxMoves: 1 },
  moves: {
    play: {
      move: ({ G }, card) => {
        G.trick.push(card);
        if (G.trick.length === SEATS) G.trick = [];
        G.played++;
      },
      // As ours: the server decides, clients only show.
      client: false,
    },
  },
  playerView: ({ G, playerID }) => ({
    ...G,
    hands: G.hands.map((hand, seat) => (String(seat) === playerID ? hand : hand.length)),
  }),
};
exports.SEATS = SEATS;
