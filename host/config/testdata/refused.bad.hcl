kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink   = "file"
  topics = ["orders"]
  delivery_semantics = "exactly-once"
  share {
    acknowledgement_mode = "implicit"
    hold_timeout         = "2m"
  }
  retry {
    park_after = "1m"
    topic      = "retry"
  }
  transform "mask" {
    type = "mask_field"
  }
  dead_letter_queue {
    topic     = "d"
    max_ratio = 0.5
    net       = true
    broker    = false
  }
  isolate {
    attempts = 3
  }
}

store "kafka" {
}

auth {
}
