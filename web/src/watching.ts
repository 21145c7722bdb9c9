/** A game to follow, over as many streams as it takes. */

import { Code, ConnectError } from "@connectrpc/connect";
import type { Commit, Snapshot, WatchResponse } from "../gen/levata/table/v1/table_pb.js";
import type { Session } from "./session.js";

/** The server is heard every three seconds at least; after so much silence the connection is taken for lost. */
const SILENCE_MILLISECONDS = 10_000;
const PAUSE_MILLISECONDS_MIN = 100;
const PAUSE_MILLISECONDS_MAX = 2_000;

/** Somebody in a seat is taken for gone after ten seconds without a word. */
const HERE_MILLISECONDS = 5_000;

/** What the network, the edge or a server that is about to stop say: the same again, a little later, may succeed. */
const AGAIN: ReadonlySet<Code> = new Set([
  Code.Canceled,
  Code.DeadlineExceeded,
  Code.Internal,
  Code.ResourceExhausted,
  Code.Unavailable,
  Code.Unknown,
]);

/** What one hears of a game. A snapshot begins it anew; commits come in order, each once. */
export type Change =
  | { kind: "snapshot"; snapshot: Snapshot }
  | { kind: "commit"; commit: Commit }
  | { kind: "disconnected"; reason: string }
  | { kind: "reconnected" };

/** All that happens in a game until it is over; `signal` ends it before. A refusal that stays one is thrown. */
export async function* watch(session: Session, gameId: string, signal?: AbortSignal): AsyncGenerator<Change> {
  const followed = new Followed(session, gameId);
  let failures = 0;
  while (!followed.over && !signal?.aborted) {
    let reason = "the server ended the stream";
    try {
      for await (const response of followed.stream(signal)) {
        if (failures > 0) {
          failures = 0;
          yield { kind: "reconnected" };
        }
        const change = followed.take(response);
        if (change !== undefined) {
          yield change;
        }
        if (followed.over) {
          return;
        }
      }
    } catch (error) {
      reason = followed.whyAgain(error);
    }
    if (signal?.aborted) {
      return;
    }
    yield { kind: "disconnected", reason };
    await pause(failures);
    failures += 1;
  }
}

/** Lets the edge send a call to where the game is. */
export function aboutGame(gameId: string): Record<string, string> {
  return { "x-game-id": gameId };
}

/** The stream is of no more use, and another one will be. */
class Again extends Error {}

/** How far one is in a game. */
class Followed {
  over = false;
  private version = 0;
  private seated = false;

  constructor(
    private readonly session: Session,
    private readonly gameId: string,
  ) {}

  /** One stream from where one is, which breaks when nothing is heard on it. */
  async *stream(signal?: AbortSignal): AsyncGenerator<WatchResponse> {
    const ended = new AbortController();
    const end = () => ended.abort();
    signal?.addEventListener("abort", end);
    let silence = setTimeout(end, SILENCE_MILLISECONDS);
    const here = setInterval(() => this.sayHere(), HERE_MILLISECONDS);
    const request = { gameId: this.gameId, afterVersion: this.version };
    const options = { signal: ended.signal, timeoutMs: 0, headers: aboutGame(this.gameId) };
    try {
      for await (const response of this.session.table.watch(request, options)) {
        clearTimeout(silence);
        silence = setTimeout(end, SILENCE_MILLISECONDS);
        yield response;
      }
    } finally {
      clearTimeout(silence);
      clearInterval(here);
      signal?.removeEventListener("abort", end);
      ended.abort();
    }
  }

  /** Go on by a message; Again if it says that something was missed, or that the server ends the stream. */
  take(response: WatchResponse): Change | undefined {
    switch (response.kind.case) {
      case "snapshot": {
        const snapshot = response.kind.value;
        this.version = snapshot.version;
        this.seated = snapshot.view?.seat !== undefined;
        this.over = snapshot.decision === undefined;
        return { kind: "snapshot", snapshot };
      }
      case "commit": {
        const commit = response.kind.value;
        this.expect(commit.version, this.version + 1);
        this.version = commit.version;
        this.over = commit.decision === undefined;
        return { kind: "commit", commit };
      }
      case "heartbeat":
        this.expect(response.kind.value.version, this.version);
        return undefined;
      case "closing":
        this.version = response.kind.value.resumeAfterVersion;
        throw new Again(response.kind.value.reason);
      default:
        // Of a newer server.
        return undefined;
    }
  }

  /** Why a new stream may mend this; what none would mend is thrown again. */
  whyAgain(error: unknown): string {
    if (error instanceof Again) {
      return error.message;
    }
    const failure = ConnectError.from(error);
    if (failure.code === Code.OutOfRange) {
      // The server's log was restored to an earlier state.
      this.version = 0;
      return failure.message;
    }
    if (AGAIN.has(failure.code)) {
      return failure.message;
    }
    throw failure;
  }

  private expect(version: number, expected: number): void {
    if (version !== expected) {
      throw new Again(`heard of version ${version} in place of ${expected}`);
    }
  }

  private sayHere(): void {
    if (this.seated) {
      const request = { gameId: this.gameId };
      // One that is lost is followed by the next; what is wrong for good, the stream will tell.
      this.session.table.here(request, { headers: aboutGame(this.gameId) }).catch(() => undefined);
    }
  }
}

function pause(failures: number): Promise<void> {
  const milliseconds = Math.min(PAUSE_MILLISECONDS_MIN * 2 ** failures, PAUSE_MILLISECONDS_MAX);
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
