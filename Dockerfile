# The broker in a small image, without root, its data in a volume.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
RUN apt-get update && apt-get install -y --no-install-recommends clang cmake make && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cargo build --release --locked -p broker --bin kelda && cp target/release/kelda /kelda

FROM debian:bookworm-slim
RUN useradd --system --uid 1000 --create-home kelda && install -d -o kelda -g kelda /var/lib/kelda
COPY --from=build /kelda /usr/local/bin/kelda
USER kelda
VOLUME /var/lib/kelda
EXPOSE 9092
HEALTHCHECK --interval=5s --timeout=3s --start-period=2s CMD ["kelda", "topic", "list", "--bootstrap-server", "localhost:9092"]
ENTRYPOINT ["kelda"]
CMD ["serve", "--override", "log.dirs=/var/lib/kelda"]
