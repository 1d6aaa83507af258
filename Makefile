# One word for each thing one does here. `make verify` changes nothing, `make fix` does.
# FILE=server.properties make run; ROUNDS=200 make kill-loop; SEEDS=10000 make sim

CARGO ?= cargo
ROUNDS ?= 200

.PHONY: run build test compat compat-kafka verify fix bench sim kill-loop

run:
	$(CARGO) run --release --locked -p broker --bin kelda -- serve $(FILE)

build:
	$(CARGO) build --release --locked -p broker --bin kelda

# Everything: the crates' own tests and the tests across crates, with stock clients, against the kelda binary.
test:
	integration/test.sh

# The tests with real processes and stock clients alone, against kelda or against Apache Kafka.
compat:
	integration/test.sh -p integration

compat-kafka:
	KELDA_TEST_BROKER=kafka integration/test.sh -p integration

verify:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked
	if command -v cargo-deny > /dev/null; then $(CARGO) deny check bans licenses sources; fi

fix:
	$(CARGO) fmt --all
	$(CARGO) clippy --workspace --all-targets --fix --allow-dirty --allow-staged

# Apache Kafka and kelda side by side, on this machine, into docs/bench: half an hour; BENCH=--quick for a glance.
bench:
	$(CARGO) build --release --locked -p broker -p integration --bin kelda --bin bench
	"$${CARGO_TARGET_DIR:-target}/release/bench" $(BENCH)

sim:
	$(CARGO) test --release --locked -p storage -p controller sim

kill-loop:
	$(CARGO) build --release --locked -p broker --bin kelda
	$(CARGO) run --release --locked -p integration --bin killloop -- $(ROUNDS)
