# One session's worker: gateway, vLLM, DeepSpeed. From the root of the repository:
#   docker build -f docker/runtime.Dockerfile -t tinkerscript-runtime:cpu .
#   docker build -f docker/runtime.Dockerfile -t tinkerscript-runtime:cuda --build-arg ENGINE=cuda .
# The CPU build of torch comes from an index of its own; without it the CUDA build is installed, which works and is
# gigabytes larger: --build-arg TORCH_OPTIONS="--index-url ADDRESS".
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG ENGINE=cpu

FROM ${PYTHON_IMAGE} AS base
# A compiler: vLLM and DeepSpeed compile kernels when they first need them. tini: ends and collects whatever is left.
RUN apt-get update && apt-get install -y --no-install-recommends gcc g++ libc6-dev libnuma1 ninja-build tini \
    && rm -rf /var/lib/apt/lists/*
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
COPY requirements /app/requirements
RUN python3 -m pip install -c requirements/constraints.txt -r requirements/build.txt

# The order of requirements/install.sh, for its reasons.
FROM base AS engine-cpu
ARG TORCH_OPTIONS=""
RUN python3 -m pip install ${TORCH_OPTIONS} -r requirements/torch.txt
RUN python3 -m pip install -c requirements/constraints.txt -r requirements/engine.txt httpx
RUN python3 -m pip install --no-deps -c requirements/constraints.txt -r requirements/vllm.txt

FROM base AS engine-cuda
RUN python3 -m pip install -r requirements/torch.txt
RUN python3 -m pip install -r requirements/vllm-cuda.txt httpx
ENV NVIDIA_VISIBLE_DEVICES=void NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM engine-${ENGINE}
RUN DS_BUILD_OPS=0 python3 -m pip install -c requirements/constraints.txt -r requirements/trainer.txt --no-build-isolation
COPY sdk sdk
COPY gpu_runtime gpu_runtime
ENV PYTHONPATH=/app:/app/sdk
USER 10001:10001
ENTRYPOINT ["tini", "--", "python3", "-m", "gpu_runtime"]
