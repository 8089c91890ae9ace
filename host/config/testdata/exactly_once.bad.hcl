kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "copies" {
  sink               = "kafka"
  topics             = ["orders", "copying group.ledger"]
  group_protocol     = "share"
  group_id           = "copying group"
  isolation_level    = "read_uncommitted"
  delivery_semantics = "exactly-once"
  dead_letter_queue {
    topic  = "dlq.copies"
    broker = true
  }
}

connector "more" {
  sink               = "kafka"
  topics             = ["orders", "connect-more.ledger"]
  delivery_semantics = "exactly-once"
}
