"""HTTP semantics: the call of a request, the formats of bodies, and the Status of every failure.

Requests and answers are plain values; `http_frontend` has the sockets. Every request gets an answer.
"""

from typing import Any, Protocol

from dds_lab.api import bodies, forms, paths, status
from dds_lab.api.access import Access, Attributes
from dds_lab.api.bodies import JSON, YAML
from dds_lab.api.clock import Clock
from dds_lab.api.discovery import AGGREGATED, AGGREGATED_LIST, Discovery, openapi_v2, openapi_v3
from dds_lab.api.forms import Form, Media, as_body, negotiate
from dds_lab.api.gates import Gates
from dds_lab.api.kinds import Object, Resource
from dds_lab.api.paths import PATCH_TYPES, Place, Query
from dds_lab.api.posted import POSTED
from dds_lab.api.registry import Registry
from dds_lab.api.requests import Call, Outcome, Reading, Request, Response, User
from dds_lab.api.scale import SCALE
from dds_lab.api.selectors import exact_name
from dds_lab.api.status import ApiError, NotAPage
from dds_lab.api.strategies import Strategy
from dds_lab.api.tables import Columns
from dds_lab.api.watches import Stream, Watch

TEXT = "text/plain; charset=utf-8"
SHAPES = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
HEALTH = ("/healthz", "/livez", "/readyz")


class Verbs(Protocol):
    """The server without HTTP."""

    registry: Registry
    gates: Gates
    access: Access
    clock: Clock

    def perform(self, call: Call, authorised: bool = False) -> Outcome: ...
    def watch(self, call: Call, endless: bool = True, authorised: bool = False) -> Watch: ...


class Responder:
    def __init__(self, server: Verbs) -> None:
        self._server = server
        self._discovery = Discovery(server.registry, server.gates)
        self._plain: dict[Strategy, forms.Plain] = {}

    def respond(self, request: Request) -> Response | Stream:
        try:
            user = self._server.access.authenticate(request.headers)
            place = paths.place(request.path)
            if place is None:
                return self._page(request, user)
            return self._resource(request, user, place)
        except NotAPage:
            headers = {"Content-Type": TEXT, "X-Content-Type-Options": "nosniff"}
            return Response(404, b"404 page not found\n", headers)
        except ApiError as error:
            headers = {"Content-Type": JSON, "Cache-Control": "no-cache, private"}
            headers |= {name.title(): value for name, value in error.headers.items()}
            return Response(error.code, as_body(error.status), headers)

    def _resource(self, request: Request, user: User, place: Place) -> Response | Stream:
        query = Query(request.query)
        verb = _verb(request.method, place, query)
        asked = Attributes(
            verb=verb or request.method.lower(), group=place.group, resource=place.plural, subresource=place.subresource,
            name=place.name or (exact_name(query.text("fieldSelector")) if verb in ("list", "watch") else ""),
            namespace=place.name if place.plural == "namespaces" else place.namespace,
        )  # fmt: skip
        self._server.access.check(user, asked)
        resource = self._found(place)
        if not verb:
            raise status.method_not_allowed()
        _check_routed(verb, place, resource)
        strategy = self._server.registry.strategy(resource)
        if verb in ("get", "list", "watch"):
            return self._read(request, query, verb, user, place, strategy)
        call, media = self._write_call(request, query, verb, user, place, resource)
        form = self._form(strategy, media, query, place.subresource)
        outcome = self._server.perform(call, authorised=True)
        return _answer(outcome, form, media)

    def _found(self, place: Place) -> Resource:
        resource = self._server.registry.find(place.group, place.version, place.plural)
        if resource is None:
            raise status.no_such_path() if self._discovery.serves(place.group, place.version) else NotAPage()
        if place.subresource and place.subresource not in resource.subresources:
            raise status.no_such_path()
        return resource

    def _read(
        self, request: Request, query: Query, verb: str, user: User, place: Place, strategy: Strategy
    ) -> Response | Stream:
        media = negotiate(request.headers.get("accept", ""), SHAPES)
        form = self._form(strategy, media, query, place.subresource)
        call = Call(
            verb=verb, resource=strategy.resource, user=user, namespace=place.namespace, name=place.name,
            subresource=place.subresource, reading=paths.reading(query),
        )  # fmt: skip
        if verb == "watch":
            watch = self._server.watch(call, endless=False, authorised=True)
            return Stream(watch, form.line, {"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        return _answer(self._server.perform(call, authorised=True), form, media)

    def _write_call(
        self, request: Request, query: Query, verb: str, user: User, place: Place, resource: Resource
    ) -> tuple[Call, Media]:
        media = negotiate(request.headers.get("accept", ""), SHAPES)
        type, agent = bodies.media_type(request.headers), request.headers.get("user-agent", "")
        common: dict[str, Any] = {
            "verb": verb,
            "resource": resource,
            "user": user,
            "namespace": place.namespace,
            "name": place.name,
            "subresource": place.subresource,
        }
        if verb in ("delete", "deletecollection"):
            body = bodies.decode(request.body, _body_type(type), "DeleteOptions") if request.body.strip() else None
            reading = paths.reading(query) if verb == "deletecollection" else Reading()
            return Call(**common, deleting=paths.deleting(query, body), reading=reading), media
        if verb == "patch":
            how = _patch_type(type, resource)
            writing = paths.writing(query, verb, agent, how)
            body = bodies.decode(request.body, type if how == "apply" else JSON, "")
            return Call(**common, writing=writing, body=body), media
        writing = paths.writing(query, verb, agent)
        body = bodies.decode(request.body, _body_type(type), resource.kind)
        return Call(**common, writing=writing, body=body), media

    def _form(self, strategy: Strategy, media: Media, query: Query, subresource: str) -> Form:
        if media.shape == "Table" and subresource != SCALE:
            columns = Columns(strategy, self._server.clock.now)
            return forms.Table(strategy, media.version, columns, query.text("includeObject"))
        if media.shape.startswith("Partial"):
            return forms.Metadata(strategy, media.version)
        found = self._plain.get(strategy)
        if found is None:
            found = self._plain[strategy] = forms.Plain(strategy)
        return found

    def _page(self, request: Request, user: User) -> Response:
        path = request.path
        self._server.access.check(
            user, Attributes(verb=request.method.lower().replace("head", "get"), path=path or "/")
        )
        if path.startswith("/openapi/v2"):
            return openapi_v2(self._discovery, request.headers.get("accept", ""))
        parts = [part for part in path.split("/") if part]
        if f"/{parts[0] if parts else ''}" in HEALTH:
            _only_get(request)
            return Response(200, b"ok", {"Content-Type": TEXT, "X-Content-Type-Options": "nosniff"})
        found = self._shown(parts, request)
        if found is None:
            raise NotAPage()
        _only_get(request)
        return found

    def _shown(self, parts: list[str], request: Request) -> Response | None:
        accept = request.headers.get("accept", "")
        discovery = self._discovery
        if parts in (["api"], ["apis"]):
            media = negotiate(accept, (AGGREGATED_LIST,))
            if media.shape and media.group == AGGREGATED and media.version in ("v2", "v2beta1"):
                body = discovery.aggregated(parts == ["api"], media.version)
                return _json(body, f"{JSON};g={AGGREGATED};v={media.version};as={AGGREGATED_LIST}")
            return _json(discovery.core() if parts == ["api"] else discovery.groups(), media=media)
        found: Object | None = None
        if not parts:
            found = discovery.paths()
        elif parts == ["version"]:
            found = discovery.version()
        elif parts[0] == "api" and len(parts) == 2:
            found = discovery.resources("", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            found = discovery.group(parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            found = discovery.resources(parts[1], parts[2])
        elif parts[:2] == ["openapi", "v3"]:
            found = openapi_v3(discovery, self._server.registry, parts[2:])
        return None if found is None else _json(found, media=negotiate(accept))


def _verb(method: str, place: Place, query: Query) -> str:
    """The verb of an HTTP method on a path; "" if there is none."""
    verb = VERBS.get(method, "")
    if verb == "get" and not place.name:
        return "watch" if query.flag("watch") else "list"
    if verb == "delete" and not place.name:
        return "deletecollection"
    return verb


def _check_routed(verb: str, place: Place, resource: Resource) -> None:
    """The error of a real server for a verb that has no route on this path."""
    if place.namespace and not resource.namespaced:
        raise status.no_such_path()
    if resource.namespaced and not place.namespace and (place.name or verb in ("create", "deletecollection")):
        raise status.no_such_path() if place.name else status.method_not_allowed()
    if place.subresource:
        allowed = ("create",) if place.subresource in POSTED else ("get", "update", "patch")
        if verb not in allowed:
            raise status.method_not_allowed()
    elif verb not in resource.verbs or (
        (verb == "create") == bool(place.name) and verb in ("create", "update", "patch")
    ):
        raise status.method_not_allowed()


def _body_type(type: str) -> str:
    if type in ("", "*/*", JSON):
        return JSON
    if type in (YAML, "application/x-yaml", "text/yaml"):
        return YAML
    if type == bodies.PROTOBUF:
        return type
    raise status.unsupported_media_type(bodies.ACCEPTED)


def _patch_type(type: str, resource: Resource) -> str:
    how = PATCH_TYPES.get(type)
    if how is None or (how == "strategic" and resource.custom):
        known = [each for each, way in PATCH_TYPES.items() if not (way == "strategic" and resource.custom)]
        raise status.unsupported_media_type(known)
    return how


def _answer(outcome: Outcome, form: Form, media: Media) -> Response:
    headers = {"Content-Type": media.type, "Cache-Control": "no-cache, private"}
    if outcome.warnings:
        headers["Warning"] = ", ".join(f"299 - {forms.encode(words).decode()}" for words in outcome.warnings)
    if outcome.page is not None:
        shown = form.page(outcome.page)
    elif outcome.object.get("kind") == "Status" and outcome.record is None:
        shown = forms.encode(outcome.object)
    else:
        shown = form.one(outcome.object, outcome.record)
    return Response(outcome.code, as_body(shown, media), headers)


def _json(value: Object, type: str = "", media: Media = forms.PLAIN) -> Response:
    return Response(
        200, as_body(value, media), {"Content-Type": type or media.type, "Cache-Control": "no-cache, private"}
    )


def _only_get(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise status.method_not_allowed()
