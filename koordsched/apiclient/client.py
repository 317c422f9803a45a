"""kubernetes-asyncio's client of an API server, JSON in and out: for live scenarios, snapshots of clusters, tests and benchmarks.

Its `ApiClient.call_api` sends and signs the requests. Its models are left alone, since objects are JSON before and after, and so is its
dynamic client, which in 36.1.0 takes every answer for a success: it asks for unread answers, whose status nothing checks. Without a time
limit of its own a request waits for ever, so each has one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from types import TracebackType
from typing import Any, Self

import aiohttp
from kubernetes_asyncio.client import ApiClient, ApiException, Configuration
from kubernetes_asyncio.config import list_kube_config_contexts, load_kube_config, load_kube_config_from_dict

REQUEST_SECONDS = 60.0
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
ANY_JSON = dict.fromkeys((200, 201, 202), "object")

__all__ = ["JSON", "ApiException", "Client", "UnusableKubeconfig"]


class UnusableKubeconfig(Exception):
    """A kubeconfig that does not lead to a cluster; the text is one line that begins with its path."""


class Client:
    """Sends requests as one user; an async context manager. Made on the event loop that it is used on."""

    def __init__(self, configuration: Configuration, user_agent: str = "") -> None:
        self._client = ApiClient(configuration)
        self.namespace = ""  # of the kubeconfig's context, "" where it names none
        if user_agent:
            self._client.user_agent = user_agent

    @property
    def server(self) -> str:
        """The API server's URL."""
        return str(self._client.configuration.host)

    @classmethod
    async def of_file(cls, kubeconfig: str, user_agent: str = "", context: str | None = None) -> Client:
        """Read a kubeconfig file, or several with the path separator between them, for a context (None: the current one).

        UnusableKubeconfig: it cannot be read, or has no such context.
        """
        if not _exists(kubeconfig):
            raise UnusableKubeconfig(f"{kubeconfig}: cannot be read: No such file or directory")
        configuration = Configuration()
        try:
            if context is not None:
                _check_context(kubeconfig, context)
            loaded = await load_kube_config(kubeconfig, context, client_configuration=configuration, persist_config=False)
            namespace = str((loaded.current_context or {}).get("context", {}).get("namespace") or "")
        except UnusableKubeconfig:
            raise
        except Exception as error:  # noqa: BLE001  # a malformed kubeconfig ends in any error at all
            raise UnusableKubeconfig(f"{kubeconfig}: {' '.join(str(error).split()) or type(error).__name__}") from None
        client = cls(configuration, user_agent)
        client.namespace = namespace
        return client

    @classmethod
    async def of_dict(cls, kubeconfig: Mapping[str, Any]) -> Client:
        """Take the content of a kubeconfig file."""
        configuration = Configuration()
        await load_kube_config_from_dict(dict(kubeconfig), client_configuration=configuration)
        return cls(configuration)

    async def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, accept: str = JSON, seconds: float = REQUEST_SECONDS
    ) -> Any:
        """Send one request, a PATCH as a JSON merge patch, and return the answer's JSON, or its text where it is none.

        ApiException: a status other than success. aiohttp.ClientError, OSError, TimeoutError: no answer within `seconds`.
        """
        return await self._client.call_api(
            path,
            method,
            header_params=_headers(method, accept),
            body=body,
            response_types_map=ANY_JSON,
            auth_settings=["BearerToken"],
            _return_http_data_only=True,
            _request_timeout=seconds,
        )

    async def stream(self, path: str, *, accept: str = JSON, silence: float | None = None) -> aiohttp.ClientResponse:
        """Send a GET whose answer is read as it comes, as that of a watch; the caller closes it. The errors are those of `request`.

        silence: seconds without a byte after which reading raises TimeoutError.
        """
        answer: aiohttp.ClientResponse = await self._client.call_api(
            path,
            "GET",
            header_params=_headers("GET", accept),
            auth_settings=["BearerToken"],
            _preload_content=False,
            _request_timeout=aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=silence),
        )
        if answer.status >= 400:  # noqa: PLR2004  # kubernetes-asyncio 36.1.0 does not look at the status of what it has not read
            refused = ApiException(answer.status, answer.reason)
            refused.body = await answer.read()
            raise refused
        return answer

    async def close(self) -> None:
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


def _exists(kubeconfig: str) -> bool:
    return any(os.path.exists(path) for path in kubeconfig.split(os.pathsep) if path)


def _check_context(kubeconfig: str, context: str) -> None:
    """See that a kubeconfig has a context of this name; its other mistakes raise anything."""
    names = [str(each["name"]) for each in list_kube_config_contexts(kubeconfig)[0]]
    if context not in names:
        near = get_close_matches(context, names, n=1) or names[:5]
        raise UnusableKubeconfig(f"{kubeconfig}: has no context {context!r}; did you mean {' or '.join(near)}?")


def _headers(method: str, accept: str) -> dict[str, str]:
    return {"Accept": accept, "Content-Type": MERGE_PATCH if method == "PATCH" else JSON}
