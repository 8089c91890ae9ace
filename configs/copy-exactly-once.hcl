# Copies orders to another topic of the same cluster, each exactly once
# (docs/exactly-once.md). worker.id, by default the
# machine's name, names each worker's transactions: no two may share it.

kafka "copies" {
  bootstrap = split(",", env("KAFKA_BOOTSTRAP", "127.0.0.1:9092"))
}

connector "copy-orders" {
  sink               = "kafka"
  kafka              = kafka.copies
  topics             = ["orders"]
  group_protocol     = "share"
  tasks              = 4
  delivery_semantics = "exactly-once"

  batch {
    max_records = 2000 # A transaction takes its time, however large it is.
  }

  dead_letter_queue {
    topic = "dlq.copy-orders"
  }

  config {
    topic = "archive.{topic}"
  }
}
