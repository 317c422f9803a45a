# The scheduler's image: built with CPython 3.13, run on the distroless image of the same Python, without shell or package manager.
#
# Base images are named by the digest of their multi-platform index; the tag beside it says what it was. To refresh one, look up the digest that
# the tag has now, and write it here: docker buildx imagetools inspect python:3.13-slim-trixie --format '{{.Manifest.Digest}}'
# Python packages are those of the lock files, by hash: `make lock` refreshes them.
FROM python:3.13-slim-trixie@sha256:ffb752e139c0a19692a43af8d8523b274222dd68eebad5d583b45c2201c6e30a AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN pip install --no-cache-dir --require-hashes --only-binary :all: --requirement requirements-build.lock \
    && pip install --no-cache-dir --require-hashes --only-binary :all: --requirement requirements.lock --target /opt/koordsched
COPY pyproject.toml setup.py README.md LICENSE ./
COPY koordsched koordsched
# --upgrade: without it, pip leaves a folder of launchers that is there already as it is, and koord-scheduler out of it.
RUN pip install --no-cache-dir --no-deps --no-build-isolation --upgrade --target /opt/koordsched . \
    # The launcher names the Python that installed it; the run-time image has its Python elsewhere.
    && sed -i '1s|^#!.*|#!/usr/bin/python3|' /opt/koordsched/bin/koord-scheduler

FROM gcr.io/distroless/python3-debian13:nonroot@sha256:4376456c1d8520c9d464f2c475465850efaecabf9a190ff24d4a0eef2b884bea
COPY --from=build /opt/koordsched /opt/koordsched
# Koordinator's Deployment calls it by this path.
COPY --from=build /opt/koordsched/bin/koord-scheduler /koord-scheduler
ENV PYTHONPATH=/opt/koordsched PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PATH=/opt/koordsched/bin:/usr/local/bin:/usr/bin:/bin
# The image's user "nonroot" by number: of a name the kubelet cannot tell whether it is root, so it does not start it with runAsNonRoot.
USER 65532:65532
EXPOSE 10251 10259
ENTRYPOINT ["koord-scheduler"]
