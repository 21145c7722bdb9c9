/** A page for tests: it follows a game, and tells what it has heard of it. */

import type { Move } from "../gen/levata/table/v1/play_pb.js";
import { reasonOf } from "../src/errors.js";
import { Session } from "../src/session.js";
import { aboutGame, watch } from "../src/watching.js";

/** What was heard so far. */
class Heard {
  /** Of each snapshot. */
  snapshots: number[] = [];
  /** Of each commit, in the order in which they came. */
  commits: number[] = [];
  disconnections: string[] = [];
  reconnections = 0;
  over = false;
  /** The last word, if it was an error. */
  error = "";
  version = 0;
  /** Open to the one who is signed in now. */
  legalMoves: Move[] = [];
}

class Page {
  private session: Session | undefined;
  heard = new Heard();

  private get signedIn(): Session {
    if (this.session === undefined) {
      throw new Error("sign in first");
    }
    return this.session;
  }

  /** Talk to the public port at this address; answers with the id of a new guest. */
  async arrive(baseUrl: string): Promise<string> {
    this.session = new Session(baseUrl);
    return (await this.session.signInAsGuest(crypto.randomUUID())).accountId;
  }

  async requestCode(address: string): Promise<void> {
    await this.signedIn.requestCode(address);
  }

  /** Answers with the account's id, and whether it is a guest's still. */
  async verifyCode(address: string, code: string): Promise<[string, boolean]> {
    const account = await this.signedIn.verifyCode(address, code);
    return [account.accountId, account.guest];
  }

  /** Answers with the account's id. */
  async refresh(): Promise<string> {
    return (await this.signedIn.refresh()).accountId;
  }

  /** The reason for which a code is refused. */
  async refusalOf(address: string, code: string): Promise<string> {
    try {
      await this.signedIn.verifyCode(address, code);
    } catch (error) {
      return reasonOf(error);
    }
    return "";
  }

  /** Begin to follow a game; `heard` tells what comes of it. */
  follow(gameId: string): void {
    const heard = new Heard();
    this.heard = heard;
    this.hear(gameId, heard).catch((error: unknown) => {
      heard.error = String(error);
    });
  }

  /** Make the first move that is allowed; answers with the version of its commit. */
  async move(gameId: string): Promise<number> {
    const [move] = this.heard.legalMoves;
    const request = { gameId, commandId: crypto.randomUUID(), atVersion: this.heard.version, move };
    return (await this.signedIn.table.act(request, { headers: aboutGame(gameId) })).version;
  }

  private async hear(gameId: string, heard: Heard): Promise<void> {
    for await (const change of watch(this.signedIn, gameId)) {
      switch (change.kind) {
        case "snapshot":
          heard.snapshots.push(change.snapshot.version);
          heard.version = change.snapshot.version;
          heard.legalMoves = change.snapshot.decision?.legalMoves ?? [];
          heard.over = change.snapshot.decision === undefined;
          break;
        case "commit":
          heard.commits.push(change.commit.version);
          heard.version = change.commit.version;
          heard.legalMoves = change.commit.decision?.legalMoves ?? [];
          heard.over = change.commit.decision === undefined;
          break;
        case "disconnected":
          heard.disconnections.push(change.reason);
          break;
        case "reconnected":
          heard.reconnections += 1;
          break;
      }
      this.tell(heard);
    }
  }

  private tell(heard: Heard): void {
    const news = document.getElementById("news");
    if (news !== null) {
      news.textContent = heard.over ? `over at version ${heard.version}` : `version ${heard.version}`;
    }
  }
}

declare global {
  interface Window {
    page: Page;
  }
}

window.page = new Page();
