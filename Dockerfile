# The scheduler's image: built with CPython 3.13, run on the distroless image of the same Python, without shell or package manager.
FROM python:3.13-slim-trixie AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
COPY koordsched koordsched
RUN pip install --no-cache-dir --target /opt/koordsched . \
    # The launcher names the Python that installed it; the run-time image has its Python elsewhere.
    && sed -i '1s|^#!.*|#!/usr/bin/python3|' /opt/koordsched/bin/koord-scheduler

FROM gcr.io/distroless/python3-debian13:nonroot
COPY --from=build /opt/koordsched /opt/koordsched
# Koordinator's Deployment calls it by this path.
COPY --from=build /opt/koordsched/bin/koord-scheduler /koord-scheduler
ENV PYTHONPATH=/opt/koordsched PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PATH=/opt/koordsched/bin:/usr/local/bin:/usr/bin:/bin
USER nonroot
EXPOSE 10251 10259
ENTRYPOINT ["koord-scheduler"]
