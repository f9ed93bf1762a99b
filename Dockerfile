# A node (docs/operators.md). scripts/pin-images writes the base image's digest behind its tag, where docker runs.
#
#     docker build -t sapo .
#     docker build -t sapo --build-arg TORCH_OPTIONS='--index-url INDEX' .      # PyTorch's of builds for a CPU: 2 GB less

FROM python:3.11-slim-bookworm AS build
ARG TORCH_OPTIONS=""
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python3 -m venv /opt/sapo
COPY requirements-torch.lock requirements-node.lock ./
RUN /opt/sapo/bin/pip install $TORCH_OPTIONS -r requirements-torch.lock
RUN /opt/sapo/bin/pip install --no-deps --require-hashes -r requirements-node.lock
COPY pyproject.toml MANIFEST.in README.md LICENSE ./
COPY client client
COPY verifier verifier
COPY scripts/sapo_devnet scripts/sapo_devnet
COPY scripts/sapo_devnet_pytest scripts/sapo_devnet_pytest
RUN /opt/sapo/bin/pip install --no-deps --no-build-isolation .

FROM python:3.11-slim-bookworm
COPY --from=build /opt/sapo /opt/sapo
RUN install -d -m 0700 -o 10001 -g 10001 /home/sapo
ENV PATH=/opt/sapo/bin:$PATH HOME=/home/sapo PYTHONUNBUFFERED=1
# A user without a name, who owns nothing but the home: the container's files cannot be changed by the node.
USER 10001:10001
WORKDIR /home/sapo
VOLUME /home/sapo
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=60s --timeout=15s --start-period=600s CMD ["sapo", "status", "--home", "/home/sapo/node"]
ENTRYPOINT ["sapo"]
CMD ["run", "--home", "/home/sapo/node", "--password-file", "/run/secrets/password"]
