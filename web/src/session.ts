/** The public port in somebody's name: signing in, and the token that goes with every call. */

import { type Client, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { type Account, Accounts } from "../gen/levata/accounts/v1/accounts_pb.js";
import { Table } from "../gen/levata/table/v1/table_pb.js";

/** A unary call that was not answered by then has failed; streams have no such limit. */
const CALL_MILLISECONDS = 10_000;

/** Somebody at the public port; nobody, until one of the ways to sign in was taken. */
export class Session {
  readonly accounts: Client<typeof Accounts>;
  readonly table: Client<typeof Table>;
  private token = "";
  private refreshToken = "";
  private refreshId = "";
  private who: Account | undefined;

  constructor(baseUrl: string) {
    const transport = this.transport(baseUrl);
    this.accounts = createClient(Accounts, transport);
    this.table = createClient(Table, transport);
  }

  /** Who is signed in. */
  get account(): Account {
    if (this.who === undefined) {
      throw new Error("nobody is signed in");
    }
    return this.who;
  }

  /** Become a new guest, or, with the same secret again, the same one with a fresh token. */
  async signInAsGuest(secret: string): Promise<Account> {
    const created = await this.accounts.createGuest({ requestId: secret });
    return this.signedIn(created);
  }

  /** Have a code mailed to an address. Nobody is told whether the address is known. */
  async requestCode(address: string): Promise<void> {
    await this.accounts.requestCode({ address, language: navigator.language });
  }

  /** Sign in with the code that was mailed; a guest's new address makes the guest an account. */
  async verifyCode(address: string, code: string): Promise<Account> {
    const verified = await this.accounts.verifyCode({ address, code, requestId: crypto.randomUUID() });
    return this.signedIn(verified);
  }

  /** Take a fresh access token before the one at hand runs out; open streams go on in any case. */
  async refresh(): Promise<Account> {
    const request = { refreshToken: this.refreshToken, requestId: this.refreshId };
    return this.signedIn(await this.accounts.refresh(request));
  }

  private signedIn(answer: { account?: Account; accessToken: string; refreshToken: string }): Account {
    this.token = answer.accessToken;
    this.refreshToken = answer.refreshToken;
    // Made once for each refresh token: the same answer comes again if the first one is lost.
    this.refreshId = crypto.randomUUID();
    this.who = answer.account;
    return this.account;
  }

  private transport(baseUrl: string): Transport {
    const withToken: Interceptor = (next) => (request) => {
      if (this.token !== "") {
        request.header.set("authorization", `Bearer ${this.token}`);
      }
      return next(request);
    };
    return createGrpcWebTransport({
      baseUrl,
      interceptors: [withToken],
      defaultTimeoutMs: CALL_MILLISECONDS,
    });
  }
}
