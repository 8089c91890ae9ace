# The definitions `make demo` runs: sample orders from the embedded broker go to
# a SQLite table, a file, and an HTTP service, by a sink in each of the three
# forms. `sluice dev` puts its own broker in the place of the kafka block;
# `sluice run` reads from the cluster named there.

worker {
  group_protocol = "share"
  plugin_path    = ["../bin/plugins"] # where `make build` puts them
  listen         = "127.0.0.1:8083"
  state_dir      = "out/state"

  key {
    converter = "string"
  }
  value {
    converter = "json"
  }
}

kafka "quickstart" {
  bootstrap = split(",", env("KAFKA_BOOTSTRAP", "127.0.0.1:9092"))
}

# Compiled into the worker. `sluice dev` makes the table; elsewhere it must
# exist before the first record.
connector "orders-to-sqlite" {
  sink   = "jdbc"
  kafka  = kafka.quickstart
  topics = ["orders"]

  dead_letter_queue {
    topic = "dlq.orders-to-sqlite"
  }

  config {
    dsn     = "sqlite:${path.module}/out/orders.db"
    table   = "orders"
    mode    = "upsert"
    pk      = { source = "value", fields = ["id"] }
    version = "updated_at" # of two rows with one id, the newer wins
  }
}

# A process of its own: bin/plugins/sluice-sink-file.
connector "orders-to-file" {
  sink   = "process:file"
  kafka  = kafka.quickstart
  topics = ["orders"]

  dead_letter_queue {
    topic = "dlq.orders-to-file"
  }

  config {
    path = "${path.module}/out/orders.jsonl"
  }
}

# A WASM module in a sandbox that lets it reach one address.
plugin "webhook" {
  sandbox {
    memory      = "64MiB"
    allow_hosts = ["127.0.0.1:8085"]
  }
}

connector "orders-to-webhook" {
  sink   = "wasm:webhook"
  kafka  = kafka.quickstart
  topics = ["orders"]

  dead_letter_queue {
    topic = "dlq.orders-to-webhook"
  }

  config {
    url = "http://127.0.0.1:8085/orders"
  }
}
