"""The routes of the public port: one for each public method, from the protos.

What a proto says of a method decides everything here: whether there is a route (`served_by` of the service), whether a
call may be repeated (`idempotency_level`), and whether it may last (a stream).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from chassis.api import public_services

# A service whose replicas keep games apart has a second cluster, which sends all calls about a game to one replica.
GAME_HEADER = "x-game-id"
CLUSTERS_BY_GAME = {"table": "table_by_game"}

UNARY_SECONDS = 30
# What the public port says of itself, accounts says: it asks the others.
FRONT = "accounts"
HEALTH = "/grpc.health.v1.Health"
REFLECTIONS = ("/grpc.reflection.v1.ServerReflection", "/grpc.reflection.v1alpha.ServerReflection")

# Public keys, for whoever wants to check our tokens; for how long they may be kept before they are asked for again.
KEY_SET = "/.well-known/jwks.json"
KEY_SET_SECONDS = 60

# A replica that could not be reached has not seen the call: any call may then go to another one.
_UNREACHED = "connect-failure"
# Also when a replica was lost in the middle of the call, or says that it cannot answer now.
_AGAIN = "connect-failure,refused-stream,reset,unavailable"
_PREVIOUS_HOSTS = {
    "name": "envoy.retry_host_predicates.previous_hosts",
    "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
    },
}


def routes(key_set: Path | None) -> list[dict[str, Any]]:
    """All routes, as Envoy's configuration has them; what has none is answered UNIMPLEMENTED.

    With a `key_set`, a file that others check our tokens with, one more that shows it as it is at the time.
    """
    return [*_methods(), *_front(), *([] if key_set is None else [_key_set(key_set)])]


def _methods() -> Iterator[dict[str, Any]]:
    for service, served_by in public_services():
        for method in service.methods:
            by_game = CLUSTERS_BY_GAME.get(served_by)
            if by_game is not None:
                yield _route(method, by_game, names_game=True)
            yield _route(method, served_by, names_game=False)


def _route(method: MethodDescriptor, cluster: str, *, names_game: bool) -> dict[str, Any]:
    match: dict[str, Any] = {"path": f"/{method.containing_service.full_name}/{method.name}"}
    action: dict[str, Any] = {"cluster": cluster, "retry_policy": _retries(method)}
    # A stream lasts as long as something moves on it (stream_idle_timeout).
    action["timeout"] = "0s" if method.server_streaming else f"{UNARY_SECONDS}s"
    if names_game:
        match["headers"] = [{"name": GAME_HEADER, "present_match": True}]
        action["hash_policy"] = [{"header": {"header_name": GAME_HEADER}}]
    return {"match": match, "route": action}


def _retries(method: MethodDescriptor) -> dict[str, Any]:
    repeatable = method.GetOptions().idempotency_level != MethodOptions.IDEMPOTENCY_UNKNOWN
    return {
        "retry_on": _AGAIN if repeatable else _UNREACHED,
        "num_retries": 2,
        "retry_host_predicate": [_PREVIOUS_HOSTS],
        # The next places on the ring may belong to the replica that has failed: three in a row for one game in 27.
        "host_selection_retry_max_attempts": 20,
    }


def _key_set(file: Path) -> dict[str, Any]:
    headers = {
        "content-type": "application/json",
        "cache-control": f"public, max-age={KEY_SET_SECONDS}",
        # What Envoy answers itself passes its filter for pages of other origins by.
        "access-control-allow-origin": "*",
    }
    return {
        "match": {"path": KEY_SET, "headers": [{"name": ":method", "string_match": {"exact": "GET"}}]},
        "direct_response": {
            "status": 200,
            # Read again whenever another file is moved in its place.
            "body": {"filename": str(file), "watched_directory": {"path": str(file.parent)}},
        },
        "response_headers_to_add": [
            {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
            for key, value in headers.items()
        ],
    }


def _front() -> Iterator[dict[str, Any]]:
    yield {"match": {"path": f"{HEALTH}/Check"}, "route": {"cluster": FRONT, "timeout": f"{UNARY_SECONDS}s"}}
    # Silent for as long as nothing changes.
    patient = {"cluster": FRONT, "timeout": "0s", "idle_timeout": "0s"}
    yield {"match": {"path": f"{HEALTH}/Watch"}, "route": patient}
    for service in REFLECTIONS:
        yield {"match": {"path": f"{service}/ServerReflectionInfo"}, "route": {"cluster": FRONT, "timeout": "0s"}}
