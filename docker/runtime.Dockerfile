# One session's worker: gateway, vLLM, DeepSpeed. From the root of the repository:
#   docker build -f docker/runtime.Dockerfile -t tinkerscript-runtime:0.2.0-cpu .
#   docker build -f docker/runtime.Dockerfile -t tinkerscript-runtime:0.2.0-cuda --build-arg ENGINE=cuda .
# The CPU build of torch comes from an index of its own; without it the CUDA build is installed, which works and is
# gigabytes larger: --build-arg TORCH_OPTIONS="--index-url ADDRESS".
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
FROM ${PYTHON_IMAGE}
# A compiler: vLLM and DeepSpeed compile kernels when they first need them. tini: ends and collects whatever is left.
RUN apt-get update && apt-get install -y --no-install-recommends gcc g++ libc6-dev libnuma1 ninja-build python3-dev tini \
    && rm -rf /var/lib/apt/lists/*
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
COPY requirements/*.txt requirements/vllm-cuda.lock requirements/
# The engine's two builds ask for other versions of the same packages: each has a lock.
ARG ENGINE=cpu
RUN case "${ENGINE}" in \
      cpu) ln -s constraints.txt requirements/lock ;; \
      cuda) ln -s vllm-cuda.lock requirements/lock ;; \
      *) echo "ENGINE is cpu or cuda, not ${ENGINE}" >&2; exit 1 ;; \
    esac
# In the order of requirements/install.sh, for its reasons.
ARG TORCH_OPTIONS=""
RUN python3 -m pip install -c requirements/lock -r requirements/build.txt \
    && python3 -m pip install ${TORCH_OPTIONS} -c requirements/lock -r requirements/torch.txt
RUN if [ "${ENGINE}" = cuda ]; then \
      python3 -m pip install -c requirements/lock -r requirements/vllm-cuda.txt httpx; \
    else \
      python3 -m pip install -c requirements/lock -r requirements/engine.txt httpx \
      && python3 -m pip install --no-deps -c requirements/lock -r requirements/vllm.txt; \
    fi
RUN DS_BUILD_OPS=0 python3 -m pip install -c requirements/lock -r requirements/trainer.txt --no-build-isolation
COPY sdk sdk
COPY gpu_runtime gpu_runtime
ENV PYTHONPATH=/app:/app/sdk NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
ENTRYPOINT ["tini", "--", "python3", "-m", "gpu_runtime"]
