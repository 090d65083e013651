# A model server on CPUs. In the checkout:
#
#     docker build -t headway .
#     docker run --rm --network host -v "$PWD/runs/translator:/models/translator:ro" headway serve /models/translator
#
# docs/howto/containers.md has more: a key and another address, a smaller torch, training.
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
# The index that has torch; that of CPU builds makes a smaller image. If unset, pip's own.
ARG TORCH_INDEX
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "torch>=2.10"
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/headway-*.whl)[serve]" && rm -r /wheels \
    && useradd --create-home --home-dir /headway --uid 1000 headway
USER headway
WORKDIR /headway
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
# `headway serve` listens at 127.0.0.1 unless --host says otherwise, which needs --key-file.
ENTRYPOINT ["headway"]
CMD ["--help"]
