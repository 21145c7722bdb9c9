/** Why the server refused a call. */

import { ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.js";

/** The domain of all reasons of ours. */
const DOMAIN = "levata";

/** The stable reason (docs/errors.md), or nothing for what the network reports. */
export function reasonOf(error: unknown): string {
  const details = ConnectError.from(error).findDetails(ErrorInfoSchema);
  return details.find((info) => info.domain === DOMAIN)?.reason ?? "";
}
