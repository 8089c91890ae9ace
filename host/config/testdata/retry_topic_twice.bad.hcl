kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink           = "file"
  topics         = ["orders"]
  group_protocol = "share"
  retry {
    park_after = "10s"
    topic      = "retry"
  }
  dead_letter_queue {
    topic = "dlq"
  }
}

connector "returns" {
  sink           = "file"
  topics         = ["returns"]
  group_protocol = "share"
  retry {
    park_after = "10s"
    topic      = "retry"
  }
  dead_letter_queue {
    topic = "dlq"
  }
}

connector "all" {
  sink           = "file"
  topics_regex   = "r.*"
  group_protocol = "share"
  dead_letter_queue {
    topic = "dlq"
  }
}
