# One session's worker: gateway, vLLM, DeepSpeed. From the root of the repository:
#   docker build -f docker/runtime.Dockerfile -t tinkerscript-runtime:0.2.0-cpu .
#   docker build -f docker/runtime.Dockerfile -t tinkerscript-runtime:0.2.0-cuda --build-arg ENGINE=cuda .
# The CPU build of torch comes from an index of its own; without it the CUDA build is installed, which works and is
# gigabytes larger: --build-arg TORCH_OPTIONS="--extra-index-url ADDRESS". A build that is not PyTorch's needs the hash of
# its file in requirements/cpu.txt.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
FROM ${PYTHON_IMAGE}
# A compiler: vLLM and DeepSpeed compile kernels when they first need them. tini: ends and collects whatever is left.
RUN apt-get update && apt-get install -y --no-install-recommends gcc g++ libc6-dev libnuma1 ninja-build python3-dev tini \
    && rm -rf /var/lib/apt/lists/*
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
COPY requirements/cpu.txt requirements/cuda.txt requirements/ray.txt requirements/
# Files that the locks have the hashes of, and what these need, which is in them too: requirements/lock.sh. DeepSpeed has no
# wheel and is built here.
ARG ENGINE=cpu
ARG TORCH_OPTIONS=""
RUN cd requirements && torch='/^[^ ]/ { of_torch = /^(torch==|nvidia-|cuda-|triton==)/ }' \
    && case "${ENGINE},${TORCH_OPTIONS:+other}" in \
      cpu,) { awk "$torch !of_torch" cpu.txt && awk "$torch of_torch" cuda.txt; } >all.txt ;; \
      cpu,other) cp cpu.txt all.txt ;; \
      cuda,) cp cuda.txt all.txt ;; \
      *) echo "ENGINE is cpu or cuda; TORCH_OPTIONS goes with cpu" >&2; exit 1 ;; \
    esac && awk '/^[^ ]/ { file = /^deepspeed==/ ? "source" : "wheels" } { print >file }' all.txt
RUN python3 -m pip install --no-deps --require-hashes --only-binary :all: ${TORCH_OPTIONS} -r requirements/wheels
RUN DS_BUILD_OPS=0 DS_IGNORE_CUDA_DETECTION=1 python3 -m pip install --no-deps --require-hashes --no-build-isolation -r requirements/source
# For sessions over several machines: --build-arg RAY=yes
ARG RAY=""
RUN [ -z "${RAY}" ] || python3 -m pip install --no-deps --require-hashes --only-binary :all: -r requirements/ray.txt
COPY sdk sdk
COPY gpu_runtime gpu_runtime
ENV PYTHONPATH=/app:/app/sdk NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
ENTRYPOINT ["tini", "--", "python3", "-m", "gpu_runtime"]
