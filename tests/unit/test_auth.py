"""Tokens: who is let in, and everybody who is not."""

import base64
import hmac
import json
import stat
import time
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest

from chassis import auth
from chassis.auth import Caller, KeyFiles, Role, Signer, Verifier, make_keys
from chassis.clock import Clock
from chassis.errors import Refused

ACCOUNT = "0199bbbb-0000-7000-8000-000000000000"
SESSION = "0199cccc-0000-7000-8000-000000000000"
OTHER_SESSION = "0199cccc-0000-7000-8000-000000000001"


@pytest.fixture
def signer(keys: KeyFiles) -> Signer:
    return Signer.from_file(keys.signing_key)


@pytest.fixture
def verifier(keys: KeyFiles) -> Verifier:
    return Verifier.from_file(keys.jwks)


def reason(verifier: Verifier, token: str) -> str:
    with pytest.raises(Refused) as caught:
        verifier.verify(token)
    assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED
    return caught.value.reason


def good_claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    claims = {"iss": "levata", "sub": ACCOUNT, "role": "player", "guest": True, "iat": now, "exp": now + 60}
    return {name: claim for name, claim in (claims | changes).items() if claim is not None}


def signed(keys: KeyFiles, claims: dict[str, Any], **headers: Any) -> str:
    """A token with our key and any claims."""
    private_jwk = json.loads(keys.signing_key.read_text())
    return jwt.encode(claims, jwt.PyJWK(private_jwk), "EdDSA", headers={"kid": private_jwk["kid"]} | headers)


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def test_a_players_token_names_the_player(signer: Signer, verifier: Verifier) -> None:
    caller = verifier.verify(signer.player_token(ACCOUNT, True, 60))
    assert caller == Caller(ACCOUNT, Role.PLAYER, True, caller.expires_at)
    assert 0 < caller.expires_at - time.time() <= 60
    assert not verifier.verify(signer.player_token(ACCOUNT, False, 60)).guest


def test_a_players_token_may_name_a_session(signer: Signer, verifier: Verifier) -> None:
    assert verifier.verify(signer.player_token(ACCOUNT, False, 60, SESSION)).session == SESSION
    assert verifier.verify(signer.player_token(ACCOUNT, False, 60)).session == ""


def test_a_services_token_names_the_service(signer: Signer, verifier: Verifier) -> None:
    caller = verifier.verify(signer.service_token("table", 60))
    assert (caller.subject, caller.role, caller.guest) == ("table", Role.SERVICE, False)


def test_no_token(verifier: Verifier) -> None:
    assert reason(verifier, "") == "TOKEN_MISSING"


@pytest.mark.parametrize("token", ["nonsense", "a.b.c", ".", "é", "e30.e30.e30"])
def test_what_is_no_token(verifier: Verifier, token: str) -> None:
    assert reason(verifier, token) == "TOKEN_INVALID"


def test_another_deployments_token(verifier: Verifier, tmp_path: Path) -> None:
    other = Signer.from_file(make_keys(tmp_path).signing_key)
    assert reason(verifier, other.player_token(ACCOUNT, True, 60)) == "TOKEN_INVALID"


def test_another_key_under_our_keys_name(verifier: Verifier, keys: KeyFiles, tmp_path: Path) -> None:
    ours = json.loads(keys.signing_key.read_text())["kid"]
    forged = signed(make_keys(tmp_path), good_claims(), kid=ours)
    assert reason(verifier, forged) == "TOKEN_INVALID"


def test_changed_claims(signer: Signer, verifier: Verifier) -> None:
    header, _, signature = signer.player_token(ACCOUNT, True, 60).split(".")
    claims = base64.urlsafe_b64encode(json.dumps(good_claims(role="service")).encode()).rstrip(b"=").decode()
    assert reason(verifier, f"{header}.{claims}.{signature}") == "TOKEN_INVALID"


def test_the_algorithm_none(verifier: Verifier, keys: KeyFiles) -> None:
    kid = json.loads(keys.signing_key.read_text())["kid"]
    assert reason(verifier, unsigned({"alg": "none", "kid": kid}, good_claims())) == "TOKEN_INVALID"


def test_the_public_key_as_a_shared_secret(verifier: Verifier, keys: KeyFiles) -> None:
    public_jwk = json.loads(keys.jwks.read_text())["keys"][0]
    public_key = jwt.PyJWK(public_jwk, "EdDSA").key.public_bytes_raw()
    header = {"alg": "HS256", "kid": public_jwk["kid"]}
    signing_input = unsigned(header, good_claims()).rpartition(".")[0]
    for secret in (public_key, public_jwk["x"].encode(), json.dumps(public_jwk).encode()):
        forged = unsigned(header, good_claims(), hmac.digest(secret, signing_input.encode(), "sha256"))
        assert reason(verifier, forged) == "TOKEN_INVALID"


def test_good_claims_are_good(keys: KeyFiles, verifier: Verifier) -> None:
    """Else the next test would show nothing."""
    assert verifier.verify(signed(keys, good_claims())).subject == ACCOUNT


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "somebody"},
        {"iss": None},
        {"sub": None},
        {"sub": ACCOUNT.upper()},
        {"sub": "levata"},
        {"role": None},
        {"role": "admin"},
        {"aud": "somebody"},
        {"iat": None},
        {"iat": "now"},
        {"nbf": True},
        {"sid": SESSION.upper()},
        {"sid": "levata"},
        {"sid": 7},
        {"sid": []},
        {"exp": None},
        {"exp": "never"},
        {"exp": 1e10},
    ],
)
def test_claims_that_we_never_sign(keys: KeyFiles, verifier: Verifier, changes: dict[str, Any]) -> None:
    assert reason(verifier, signed(keys, good_claims(**changes))) == "TOKEN_INVALID"


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_a_token_from_the_future(keys: KeyFiles, verifier: Verifier, claim: str) -> None:
    claims = good_claims(**{claim: int(time.time()) + 3600})
    assert reason(verifier, signed(keys, claims)) == "TOKEN_INVALID"


def test_a_signers_clock_may_be_a_little_ahead(keys: KeyFiles, verifier: Verifier) -> None:
    soon = int(time.time()) + 5
    assert verifier.verify(signed(keys, good_claims(iat=soon, nbf=soon))).subject == ACCOUNT


def test_a_token_longer_than_any_of_ours(keys: KeyFiles, verifier: Verifier) -> None:
    assert reason(verifier, signed(keys, good_claims(more="x" * 5000))) == "TOKEN_INVALID"
    assert not verifier._verified


def test_one_changed_bit_anywhere(signer: Signer, verifier: Verifier) -> None:
    token = signer.player_token(ACCOUNT, False, 60, SESSION)
    for place in range(0, len(token) - 1, 7):
        forged = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        assert reason(verifier, forged) == "TOKEN_INVALID"


def test_a_revoked_sessions_tokens_are_refused_remembered_or_not(keys: KeyFiles) -> None:
    clock = SetClock()
    signer, verifier = Signer.from_file(keys.signing_key, clock), Verifier.from_file(keys.jwks, clock)
    known, unknown = (signer.player_token(ACCOUNT, False, ttl, SESSION) for ttl in (50, 60))
    other = signer.player_token(ACCOUNT, False, 60, OTHER_SESSION)
    assert verifier.verify(known) == verifier.remembered(known)
    verifier.revoke(SESSION, clock.now + 60)
    assert [reason(verifier, token) for token in (known, unknown, known)] == ["SESSION_REVOKED"] * 3
    assert verifier.remembered(known) is None
    # Others, and those without a session, have nothing to do with it.
    for token in (other, signer.player_token(ACCOUNT, False, 60), signer.service_token("table", 60)):
        verifier.verify(token)


def test_a_revoked_session_is_forgotten_when_its_tokens_have_run_out(keys: KeyFiles) -> None:
    clock = SetClock()
    signer, verifier = Signer.from_file(keys.signing_key, clock), Verifier.from_file(keys.jwks, clock)
    token = signer.player_token(ACCOUNT, False, 60, SESSION)
    for expire_at in (clock.now + 60, clock.now + 10):
        # Heard twice: the later time counts.
        verifier.revoke(SESSION, expire_at)
    clock.now += 59
    verifier.forget_expired()
    assert reason(verifier, token) == "SESSION_REVOKED"
    clock.now += 1
    verifier.forget_expired()
    assert verifier.revoked_sessions == 0
    assert reason(verifier, token) == "TOKEN_EXPIRED"


@pytest.mark.parametrize("kid", [None, "unknown", 7, ["a"]])
def test_a_key_that_is_not_in_the_set(keys: KeyFiles, verifier: Verifier, kid: Any) -> None:
    claims, private_jwk = good_claims(), json.loads(keys.signing_key.read_text())
    header = {"alg": "EdDSA"} | ({} if kid is None else {"kid": kid})
    signing_input = unsigned(header, claims).rpartition(".")[0]
    signature = jwt.PyJWK(private_jwk).key.sign(signing_input.encode())
    assert reason(verifier, unsigned(header, claims, signature)) == "TOKEN_INVALID"


class SetClock(Clock):
    """A clock that stands where it is put."""

    now = 1_000_000

    def now_s(self) -> int:
        return self.now


def test_a_token_runs_out_by_our_clock_remembered_or_not(keys: KeyFiles) -> None:
    clock = SetClock()
    verifier = Verifier.from_file(keys.jwks, clock)
    token = Signer.from_file(keys.signing_key, clock).player_token(ACCOUNT, True, 10)
    clock.now += 9
    verifier.verify(token)
    verifier.verify(token)
    clock.now += 1
    assert reason(verifier, token) == "TOKEN_EXPIRED"
    assert reason(Verifier.from_file(keys.jwks, clock), token) == "TOKEN_EXPIRED"


def test_a_signature_is_checked_once_and_memory_is_bounded(
    signer: Signer, verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "VERIFIED_TOKENS_MAX", 3)
    checked: list[str] = []
    decode = jwt.decode

    def counting_decode(token: str, *arguments: Any, **options: Any) -> Any:
        checked.append(token)
        return decode(token, *arguments, **options)

    monkeypatch.setattr(jwt, "decode", counting_decode)
    tokens = [signer.service_token(f"service-{number}", 60) for number in range(4)]
    for token in tokens:
        for _ in range(5):
            verifier.verify(token)
    assert checked == tokens
    # The first has made room for the fourth; those that are left out are only slower.
    verifier.verify(tokens[3])
    verifier.verify(tokens[0])
    assert checked == [*tokens, tokens[0]]


def test_what_is_refused_is_not_remembered(verifier: Verifier) -> None:
    for number in range(10):
        reason(verifier, f"nonsense {number}")
    assert not verifier._verified


def test_keys_are_made_once_and_the_signing_key_is_its_owners(tmp_path: Path) -> None:
    first = make_keys(tmp_path)
    contents = [file.read_text() for file in first]
    assert make_keys(tmp_path) == first
    assert [file.read_text() for file in first] == contents
    assert stat.S_IMODE(first.signing_key.stat().st_mode) == 0o600
    assert "d" not in json.loads(first.jwks.read_text())["keys"][0]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["jwks.json", "signing-key.json"]


def test_a_key_may_be_replaced_while_old_tokens_still_count(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old, new = make_keys(tmp_path / "old"), make_keys(tmp_path / "new")
    both = {"keys": [key for files in (old, new) for key in json.loads(files.jwks.read_text())["keys"]]}
    verifier = Verifier(both)
    for files in (old, new):
        assert verifier.verify(Signer.from_file(files.signing_key).service_token("table", 60)).subject == "table"
