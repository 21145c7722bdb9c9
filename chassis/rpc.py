"""The gRPC edge of a service, and the way to call one.

`Server` takes plain objects whose methods are the RPC's names in snake case. It asks who calls (`chassis.admission`),
parses and validates, counts, and turns what goes wrong into statuses: this is the only place where that happens.
Everything here runs once per call, so there are no interceptors, which cost more than the rest together; what can be
looked up beforehand is. Knows nothing of any particular service.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Self, TypeAlias, TypeVar

import grpc
import protovalidate
import structlog
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha._async import ReflectionServicer
from grpc_status import rpc_status

from chassis.admission import Access, Admission, Admitted, Context
from chassis.auth import Caller, Verifier, session_revoked
from chassis.errors import FieldViolation, Refused
from chassis.limits import Limits
from chassis.streams import OpenStreams

__all__ = ["Access", "Call", "Limits", "Server", "Stub", "Token", "channel", "checks_itself", "stub", "validate"]

log = structlog.get_logger(__name__)

# A message, or one that is encoded already: what goes to many streams is encoded once.
Response: TypeAlias = Message | bytes

# What a call shows: always the same, or what there is at each call.
Token: TypeAlias = str | Callable[[], str]

# Quoted: only grpc's stubs know that it has parameters.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


# A client that reads nothing more is not waited for when its call is refused.
ABORT_SECONDS: Final = 2.0

_CHECKS_ITSELF = "checks_itself"
Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])


def checks_itself(method: Method) -> Method:
    """Mark the implementation of a method on the hot path: its request is not validated before, which would take some
    10 microseconds. It refuses by its own checks all that the proto's rules refuse, and asks `validate` why."""
    setattr(method, _CHECKS_ITSELF, True)
    return method


class Call:
    """One call, as its implementation sees it."""

    __slots__ = ("_admission", "_counts", "_parse", "_payer", "caller", "context", "write")

    # None only where anybody may call.
    caller: Caller | None
    context: Context
    # Sends a message down the stream. It is grpc's own method: nothing of ours runs per message.
    write: Callable[[Response], Awaitable[None]]

    def __init__(
        self,
        admitted: Admitted,
        admission: Admission,
        counts: "CallCounts",
        context: Context,
        parse: Callable[[bytes], Message],
    ) -> None:
        self.caller, self._payer = admitted
        self._counts = counts
        self.context = context
        self.write = context.write
        self._admission = admission
        self._parse = parse

    @property
    def who(self) -> Caller:
        """The caller of a call that needs a token."""
        assert self.caller is not None
        return self.caller

    @property
    def peer(self) -> str:
        """The address that calls, as the edge saw it."""
        return self._admission.peer(self.context)

    def count_refusal(self, refused: Refused) -> None:
        """Something was refused on a stream that goes on."""
        self._counts.refused[refused.reason] += 1

    async def read(self) -> Any:
        """The client's next message, not yet validated, or None when it has ended its side.

        Who sends more than may be sent is heard later: what waits then waits at the client.
        """
        raw = await self.context.read()
        if raw is grpc.aio.EOF:
            return None
        if self._payer:
            seconds = self._admission.rates.wait(self._payer)
            if seconds:
                await asyncio.sleep(seconds)
        return self._parse(raw)


@dataclass(slots=True)
class CallCounts:
    """What became of one method's calls since the start."""

    started: int = 0
    ended: int = 0
    # Unexpected exceptions: each is a fault of ours.
    failed: int = 0
    # By reason.
    refused: Counter[str] = field(default_factory=Counter)


class Server:
    """A gRPC server on one port, with health and reflection."""

    def __init__(
        self, verifier: Verifier, limits: Limits = Limits(), *, reflected: Sequence[str] | None = None
    ) -> None:
        self._verifier = verifier
        self._limits = limits
        self._admission = Admission(verifier, limits)
        self._streams = OpenStreams(limits.caller_streams)
        # What reflection lists, if not the server's own services.
        self._reflected = reflected
        self._open_calls = 0
        self._routes = _Routes()
        self._services: list[str] = []
        self._health = HealthServicer()
        self._server: grpc.aio.Server | None = None
        # By "/package.Service/Method".
        self.counts: dict[str, CallCounts] = {}

    def add(self, service: ServiceDescriptor, implementation: object, access: Access | Mapping[str, Access]) -> None:
        """Serve `service`; every method must be implemented, and have its access named if not all have the same."""
        self._services.append(service.full_name)
        for method in service.methods:
            behaviour = getattr(implementation, _snake_case(method.name))
            needed = access if isinstance(access, Access) else access[method.name]
            path = _path(method)
            self._routes[path] = self._handler(path, method, behaviour, needed)

    async def start(self, host: str, port: int) -> int:
        """Listen; answers with the port, which the system chooses where `port` is 0. OSError if it is taken."""
        self._server = grpc.aio.server(handlers=[self._routes], options=self._limits.options())
        self._add_health_and_reflection()
        try:
            bound = self._server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except RuntimeError as error:
            raise OSError(f"cannot listen on {host}:{port}") from error
        for name in self._services:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        await self._server.start()
        return bound

    async def stop(self, grace: float) -> None:
        """Take no new calls, tell watchers of health, and cancel what still runs after `grace` seconds."""
        await self._health.enter_graceful_shutdown()
        if self._server is not None:
            await self._server.stop(grace)

    async def drain(self) -> None:
        """Say in health that no more calls should come; those that do are served until the end."""
        await self._health.enter_graceful_shutdown()

    async def set_serving(self, serving: bool) -> None:
        """Report the whole server and all its own services as serving or not."""
        for name in ("", *self._services):
            await self.set_health(name, serving)

    async def set_health(self, name: str, serving: bool) -> None:
        """Report a service, or the whole server ("") as serving or not."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        await self._health.set(name, status)

    def revoke(self, session: str, tokens_expire_at: int) -> None:
        """Refuse a session's tokens, the last of which runs out at `tokens_expire_at`, and end its streams."""
        self._verifier.revoke(session, tokens_expire_at)
        self._streams.end(session)

    def forget_expired_revocations(self) -> None:
        """Forget revoked sessions whose tokens have run out by themselves; call it every few seconds."""
        for session in list(self._streams.sessions()):
            # A cancellation can get lost on its way: Python's own `wait_for` has swallowed some.
            if self._verifier.is_revoked(session):
                self._streams.end(session)
        self._verifier.forget_expired()

    @property
    def revoked_sessions(self) -> int:
        """Sessions whose tokens are refused though they have not run out."""
        return self._verifier.revoked_sessions

    @property
    def messages_read_later(self) -> int:
        """Messages of streams that had to wait, because their callers send too many."""
        return self._admission.rates.waits

    @property
    def callers(self) -> int:
        """Callers whose rates are remembered."""
        return len(self._admission.rates)

    @property
    def open_calls(self) -> int:
        """Calls that run now, idle streams included; health and reflection are not counted."""
        return self._open_calls

    def _handler(
        self, path: str, method: MethodDescriptor, behaviour: Callable[..., Awaitable[Any]], access: Access
    ) -> Handler:
        assert asyncio.iscoroutinefunction(behaviour), f"{path} must be implemented by an async method"
        assert method.server_streaming or not method.client_streaming, "gRPC-Web has no client streams"
        counts = self.counts[path] = CallCounts()
        parse = _parser(GetMessageClass(method.input_type), self._limits.message_bytes)
        admission, admit = self._admission, self._admission.to(access)
        checks_itself = getattr(behaviour, _CHECKS_ITSELF, False)

        async def with_request(raw: bytes, context: Context, admitted: Admitted) -> Any:
            request = parse(raw)
            if not checks_itself:
                validate(request)
            return await behaviour(request, Call(admitted, admission, counts, context, parse))

        async def with_stream(_: object, context: Context, admitted: Admitted) -> Any:
            return await behaviour(Call(admitted, admission, counts, context, parse))

        respond = with_stream if method.client_streaming else with_request

        async def invoke(raw: Any, context: Context) -> Any:
            return await respond(raw, context, admit(context))

        async def invoke_stream(raw: Any, context: Context) -> Any:
            admitted = admit(context)
            session = "" if admitted.caller is None else admitted.caller.session
            with self._streams.opened(admitted.payer, session) as stream:
                try:
                    return await respond(raw, context, admitted)
                except asyncio.CancelledError:
                    if stream.revoked:
                        stream.task.uncancel()
                        raise session_revoked() from None
                    raise

        invoke = invoke_stream if method.server_streaming else invoke

        async def handle(raw: Any, context: Context) -> Any:
            counts.started += 1
            self._open_calls += 1
            try:
                if self._open_calls > self._limits.calls:
                    raise Refused(
                        "TOO_MANY_CALLS",
                        grpc.StatusCode.RESOURCE_EXHAUSTED,
                        "The server has all the calls it can bear.",
                    )
                return await invoke(raw, context)
            except Refused as refused:
                counts.refused[refused.reason] += 1
                await _abort(context, refused)
            except grpc.aio.BaseError:
                # The call is over, aborted by us or left by its client: grpc knows.
                raise
            except Exception:
                counts.failed += 1
                log.exception("a call failed", method=path)
                await _abort(context, Refused("INTERNAL", grpc.StatusCode.INTERNAL, "Something went wrong here."))
            finally:
                counts.ended += 1
                self._open_calls -= 1

        if method.client_streaming:
            return grpc.stream_stream_rpc_method_handler(handle, response_serializer=_encode)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(handle, response_serializer=_encode)
        return grpc.unary_unary_rpc_method_handler(handle, response_serializer=_encode)

    def _add_health_and_reflection(self) -> None:
        """Through our own routes: registered the packages' way they would cost every call of the server some time."""
        reflected = self._services if self._reflected is None else self._reflected
        reflection = ReflectionServicer([*reflected, "grpc.health.v1.Health"])
        self._routes["/grpc.health.v1.Health/Check"] = grpc.unary_unary_rpc_method_handler(
            self._health.Check, health_pb2.HealthCheckRequest.FromString, _encode
        )
        self._routes["/grpc.health.v1.Health/Watch"] = grpc.unary_stream_rpc_method_handler(
            self._health.Watch, health_pb2.HealthCheckRequest.FromString, _encode
        )
        # The package has only the older name; the messages of both are the same.
        for version in ("v1", "v1alpha"):
            self._routes[f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"] = (
                grpc.stream_stream_rpc_method_handler(
                    reflection.ServerReflectionInfo, reflection_pb2.ServerReflectionRequest.FromString, _encode
                )
            )


class _Routes(dict[str, Handler], grpc.GenericRpcHandler):
    """All methods of a server: one look-up a call, however many services there are."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "Handler | None":
        return self.get(handler_call_details.method)


def _parser(message_class: type[Message], bytes_max: int) -> Callable[[bytes], Message]:
    from_string = message_class.FromString

    def parse(raw: bytes) -> Message:
        if len(raw) > bytes_max:
            raise Refused(
                "MESSAGE_TOO_LARGE",
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"A message of {len(raw)} bytes is over the limit of {bytes_max}.",
            )
        try:
            return from_string(raw)
        except DecodeError:
            raise Refused("MALFORMED", grpc.StatusCode.INVALID_ARGUMENT, "The message cannot be decoded.") from None

    return parse


def _encode(response: Response) -> bytes:
    return response if type(response) is bytes else response.SerializeToString()  # type: ignore[union-attr]


async def _abort(context: Context, refused: Refused) -> NoReturn:
    try:
        async with asyncio.timeout(ABORT_SECONDS):
            await context.abort_with_status(rpc_status.to_status(refused.status()))
    except TimeoutError:
        # What grpc has still to send of a stream goes before its status.
        raise asyncio.CancelledError from None


# Compiles the rules of a message once, when it first sees one.
_validator = protovalidate.Validator()


def validate(message: Message) -> None:
    """Check a message against the rules in its proto; Refused with every field that breaks one."""
    violations = _validator.collect_violations(message)
    if violations:
        fields = [_field_violation(violation.proto) for violation in violations]
        raise Refused(
            "INVALID_REQUEST",
            grpc.StatusCode.INVALID_ARGUMENT,
            "; ".join(f"{name}: {description}" for name, description in fields),
            violations=fields,
        )


def _field_violation(violation: protovalidate.ViolationPb) -> FieldViolation:
    """The field as `move.play_card` or `seats[2].nonce`; empty where the message as a whole is at fault."""
    elements = violation.field.elements if violation.field else ()
    path = ".".join(
        element.field_name if element.subscript is None else f"{element.field_name}[{element.subscript.value}]"
        for element in elements
    )
    return FieldViolation(path, violation.message or violation.rule_id)


def _path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# Long-lived channels notice a dead server within 15 seconds, and are back soon after it is.
CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


def channel(
    target: str, token: Token | None = None, *, own_connection: bool = False, trusted: bytes = b""
) -> grpc.aio.Channel:
    """A channel to `target` (host:port) whose calls carry `token`; over TLS where certificates (PEM) are `trusted`.

    Channels of one process to the same target share a connection, unless one asks for its own.
    """
    options = (*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", int(own_connection)))
    if trusted:
        plain = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(trusted), options)
    else:
        plain = grpc.aio.insecure_channel(target, options)
    return plain if token is None else _AuthorizedChannel(plain, token)


def _authorization(token: str) -> tuple[str, str]:
    return "authorization", f"Bearer {token}"


class _AuthorizedChannel(grpc.aio.Channel):
    """Adds a token to the metadata of every call; an interceptor would do the same at many times the cost."""

    def __init__(self, plain: grpc.aio.Channel, token: Token) -> None:
        self._plain = plain
        self._token = token

    def _authorized(self, start: Callable[..., Any]) -> Any:
        if callable(self._token):
            token = self._token

            def start_authorized(*request: Any, metadata: Iterable[tuple[str, str]] = (), **options: Any) -> Any:
                return start(*request, metadata=(_authorization(token()), *metadata), **options)

            return start_authorized
        fixed = _authorization(self._token)

        def start_with_fixed(*request: Any, metadata: Iterable[tuple[str, str]] = (), **options: Any) -> Any:
            return start(*request, metadata=(fixed, *metadata), **options)

        return start_with_fixed

    def unary_unary(self, *method: Any, **options: Any) -> Any:
        return self._authorized(self._plain.unary_unary(*method, **options))

    def unary_stream(self, *method: Any, **options: Any) -> Any:
        return self._authorized(self._plain.unary_stream(*method, **options))

    def stream_unary(self, *method: Any, **options: Any) -> Any:
        return self._authorized(self._plain.stream_unary(*method, **options))

    def stream_stream(self, *method: Any, **options: Any) -> Any:
        return self._authorized(self._plain.stream_stream(*method, **options))

    async def close(self, grace: float | None = None) -> None:
        await self._plain.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._plain.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._plain.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._plain.channel_ready()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


class Stub:
    """A service's methods as callables by their RPC names: `await stub.Act(request, timeout=2)`."""

    def __init__(self, on: grpc.aio.Channel, service: ServiceDescriptor) -> None:
        for method in service.methods:
            kind = f"{_SHAPE[method.client_streaming]}_{_SHAPE[method.server_streaming]}"
            start = getattr(on, kind)(
                _path(method),
                request_serializer=_encode,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, start)

    def __getattr__(self, name: str) -> Any:
        """Only for names that the service does not have; it also tells type checkers that the rest is dynamic."""
        raise AttributeError(f"the service has no method {name}")


_SHAPE = {False: "unary", True: "stream"}


def stub(on: grpc.aio.Channel, service: ServiceDescriptor) -> Stub:
    """The methods of `service`, called over a channel."""
    return Stub(on, service)
