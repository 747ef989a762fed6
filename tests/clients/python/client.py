"""Uses a server through gRPC's own library for Python, and checks what it promises.

Usage: client.py ADDRESS PROTO_FOLDER

The server must not ask for credentials. Every run uses topics of its own, so it can be repeated.
"""

import contextlib
import importlib
import importlib.util
import os
import pathlib
import queue
import sys
import tempfile

import grpc
from grpc_status import rpc_status
from grpc_tools import protoc

# Longer than any answer takes; reached only by a hang.
PATIENCE_S = 30

# What real clients ask of their connection.
OPTIONS = [
    ("grpc.keepalive_time_ms", 16_000),
    ("grpc.keepalive_timeout_ms", 25_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]

PACKAGE = "xmtp.backend.v1"


def compiled(protos: pathlib.Path, into: str):
    """Compiles the schema, and answers with the modules of the backend and of health."""
    files = [str(path.relative_to(protos)) for path in sorted(protos.rglob("*.proto"))]
    arguments = ["protoc", f"-I{protos}", f"--python_out={into}", *files]
    if protoc.main(arguments) != 0:
        raise SystemExit("the schema does not compile")
    sys.path.insert(0, into)
    # Our folder of health is `grpc`, the name of the library; its module is loaded by path.
    backend = importlib.import_module(f"{PACKAGE}.backend_pb2")
    path = pathlib.Path(into, "grpc", "health", "v1", "health_pb2.py")
    spec = importlib.util.spec_from_file_location("health_pb2", path)
    health = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(health)
    return backend, health


class Server:
    """The methods of the server, from the schema's descriptors: no generated stub can help."""

    def __init__(self, channel, modules):
        self._channel = channel
        self._modules = modules

    def method(self, service: str, name: str):
        for module in self._modules:
            for described in module.DESCRIPTOR.services_by_name.values():
                if described.full_name == service:
                    return self._callable(module, described.methods_by_name[name])
        raise AssertionError(f"{service} is not in the schema")

    def _callable(self, module, method):
        kinds = {
            (False, False): self._channel.unary_unary,
            (False, True): self._channel.unary_stream,
            (True, True): self._channel.stream_stream,
        }
        kind = kinds[method.client_streaming, method.server_streaming]
        return kind(
            f"/{method.containing_service.full_name}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=getattr(module, method.output_type.name).FromString,
        )


def welcome(pb, key: bytes, data: bytes):
    """A welcome for an installation."""
    envelope = pb.ClientEnvelope()
    v1 = envelope.welcome_message.v1
    v1.installation_key = key
    v1.data = data
    v1.hpke_public_key = os.urandom(32)
    v1.wrapper_algorithm = 1
    return envelope


def topic_of(key: bytes) -> bytes:
    """The topic of the welcomes for an installation."""
    return b"\x01" + key


def query_of(pb, key: bytes, sequence_id: int):
    return pb.TopicQuery(
        topic=pb.Topic(topic=topic_of(key)), cursor=pb.Cursor(sequence_id=sequence_id)
    )


def ids_of(metas):
    return [meta.cursor.sequence_id for meta in metas]


def expect(what: str, found, wanted):
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, not {wanted!r}")


@contextlib.contextmanager
def refusal(what: str, code):
    """Expects the block to fail with this status, and answers with the error."""
    caught = []
    try:
        yield caught
    except grpc.RpcError as error:
        expect(what, error.code(), code)
        caught.append(error)
    else:
        raise AssertionError(f"{what}: succeeded")


def is_serving(server, health):
    check = server.method("grpc.health.v1.Health", "Check")
    answer = check(health.HealthCheckRequest(), timeout=PATIENCE_S)
    expect("health", answer.status, health.HealthCheckResponse.SERVING)


def publishes_and_queries(server, pb):
    """Stores envelopes once, in order, and reads them back."""
    publish = server.method(f"{PACKAGE}.PublishService", "Publish")
    query = server.method(f"{PACKAGE}.QueryService", "Query")
    key = os.urandom(32)
    envelopes = [welcome(pb, key, bytes([number])) for number in range(5)]
    request = pb.PublishRequest(envelopes=envelopes)
    answer, call = publish.with_call(request, timeout=PATIENCE_S)
    stored = ids_of(answer.envelope_metas)
    expect("ids in order", stored, sorted(set(stored)))
    expect("a meta per envelope", len(stored), 5)
    headers = dict(call.initial_metadata())
    expect("a request id", len(headers["x-request-id"]), 36)
    again = publish(request, timeout=PATIENCE_S)
    expect("the same publish again", ids_of(again.envelope_metas), stored)

    request = pb.QueryRequest(queries=[query_of(pb, key, stored[0])], limit=3)
    page = query(request, timeout=PATIENCE_S)
    expect("a page", ids_of(e.meta for e in page.envelopes), stored[1:4])
    expect("what was published", [e.envelope for e in page.envelopes], envelopes[1:4])
    expect("there is more", page.continuation.has_more, True)


def carries_large_messages(server, pb):
    """A request and an answer of almost 25 MiB pass in both directions."""
    publish = server.method(f"{PACKAGE}.PublishService", "Publish")
    query = server.method(f"{PACKAGE}.QueryService", "Query")
    key = os.urandom(32)
    envelopes = [welcome(pb, key, os.urandom(1_048_000)) for _ in range(24)]
    request = pb.PublishRequest(envelopes=envelopes)
    answer = publish(request, timeout=PATIENCE_S)
    expect("a meta per envelope", len(answer.envelope_metas), 24)
    page = query(pb.QueryRequest(queries=[query_of(pb, key, 0)]), timeout=PATIENCE_S)
    expect("what was published", [e.envelope for e in page.envelopes], envelopes)


def reads_the_detail_of_a_refusal(server, pb):
    """The typed reason of a rejected publish is where gRPC's own helper looks for it."""
    publish = server.method(f"{PACKAGE}.PublishService", "Publish")
    good = welcome(pb, os.urandom(32), b"data")
    bad = welcome(pb, os.urandom(31), b"data")
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    with refusal("a malformed envelope", invalid) as caught:
        publish(pb.PublishRequest(envelopes=[good, bad]), timeout=PATIENCE_S)
    status = rpc_status.from_call(caught[0])
    expect("one detail", len(status.details), 1)
    detail = pb.PublishError()
    expect("its type", status.details[0].Unpack(detail), True)
    expect("the index", (detail.HasField("index"), detail.index), (True, 1))
    expect("the reason", detail.reason, pb.PublishError.REASON_MALFORMED_PAYLOAD)

    query = server.method(f"{PACKAGE}.QueryService", "Query")
    with refusal("no topic", invalid) as caught:
        query(pb.QueryRequest(queries=[pb.TopicQuery()]), timeout=PATIENCE_S)
    expect("no detail", rpc_status.from_call(caught[0]), None)


def subscribes(server, pb):
    """A bidirectional stream: history, then live envelopes, pings, and a quiet end."""
    publish = server.method(f"{PACKAGE}.PublishService", "Publish")
    subscribe = server.method(f"{PACKAGE}.SubscriptionService", "Subscribe")
    key = os.urandom(32)
    request = pb.PublishRequest(envelopes=[welcome(pb, key, b"history")])
    history = ids_of(publish(request, timeout=PATIENCE_S).envelope_metas)

    requests = queue.SimpleQueue()
    stream = subscribe(iter(requests.get, None), timeout=PATIENCE_S)
    expect("the first frame", next(stream).WhichOneof("response"), "started")
    update = pb.SubscribeRequest.Update(id=7, adds=[query_of(pb, key, 0)])
    requests.put(pb.SubscribeRequest(update=update))
    applied = next(stream).applied
    expect("the update", applied.id, 7)
    expect("its target", applied.added_targets[0].through_sequence_id, history[-1])
    expect("history", ids_of(e.meta for e in next(stream).messages.envelopes), history)
    for number in range(3):
        request = pb.PublishRequest(envelopes=[welcome(pb, key, bytes([number]))])
        live = ids_of(publish(request, timeout=PATIENCE_S).envelope_metas)
        frame = next(stream)
        expect("live", ids_of(e.meta for e in frame.messages.envelopes), live)
    requests.put(pb.SubscribeRequest(ping=pb.Ping(nonce=9)))
    expect("the answer to a ping", next(stream).pong.nonce, 9)
    requests.put(None)
    expect("nothing more", list(stream), [])
    expect("the end", stream.code(), grpc.StatusCode.OK)


def subscribes_statically(server, pb):
    """A static stream delivers while it is open, and can be left."""
    publish = server.method(f"{PACKAGE}.PublishService", "Publish")
    subscribe = server.method(f"{PACKAGE}.SubscriptionService", "SubscribeStatic")
    key = os.urandom(32)
    request = pb.SubscribeStaticRequest(topics=[query_of(pb, key, 0)])
    stream = subscribe(request, timeout=PATIENCE_S)
    started = next(stream).started
    expect("its target", started.targets[0].through_sequence_id, 0)
    request = pb.PublishRequest(envelopes=[welcome(pb, key, b"live")])
    live = ids_of(publish(request, timeout=PATIENCE_S).envelope_metas)
    expect("live", ids_of(e.meta for e in next(stream).messages.envelopes), live)
    stream.cancel()
    expect("the end", stream.code(), grpc.StatusCode.CANCELLED)
    with refusal("an empty subscription", grpc.StatusCode.INVALID_ARGUMENT):
        next(subscribe(pb.SubscribeStaticRequest(), timeout=PATIENCE_S))


def main() -> None:
    address, protos = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        pb, health = compiled(pathlib.Path(protos), folder)
        with grpc.insecure_channel(address, options=OPTIONS) as channel:
            server = Server(channel, [pb, health])
            is_serving(server, health)
            for check in [
                publishes_and_queries,
                carries_large_messages,
                reads_the_detail_of_a_refusal,
                subscribes,
                subscribes_statically,
            ]:
                check(server, pb)
                print(f"ok: {check.__name__}")


if __name__ == "__main__":
    main()
