# syntax=docker/dockerfile:1.7

# The worker and the command line. Neither links the Temporal server: that is for `go run ./dev`, which needs no image.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
ARG TARGETOS
ARG TARGETARCH
# ./worker/clouds: also the storage of Google Cloud and Azure.
ARG WORKER=./worker
WORKDIR /src
COPY . .
# No `go mod download`: it would fetch the Temporal server and other modules that these two binaries do not need.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags='-s -w' -o /out/worker $WORKER \
 && CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags='-s -w' -o /out/starter ./starter \
 && mkdir -p /out/data

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/worker /out/starter /usr/local/bin/
# Blobs, unless TURNSTONE_STORAGE_BLOB_URL names a bucket. Owned by the user that the image runs as.
COPY --from=build --chown=65532:65532 /out/data /var/lib/turnstone
ENV TURNSTONE_DATA_DIR=/var/lib/turnstone
WORKDIR /var/lib/turnstone
VOLUME /var/lib/turnstone
USER 65532:65532
# HTTP and gRPC listen on loopback unless TURNSTONE_HTTP_ADDR and TURNSTONE_GRPC_ADDR say otherwise: authentication is off until it is configured.
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/worker", "health"]
ENTRYPOINT ["/usr/local/bin/worker"]
