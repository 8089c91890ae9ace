kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink   = "file"
  topics = ["orders"]
  delivery_semantics = "at-most-once"
  share {
    acknowledgement_mode = "automatic"
    hold_timeout         = "2m"
  }
  transform "mask" {
    type = "mask_field"
  }
  dead_letter_queue {
    topic     = "d"
    max_ratio = 0.5
    net       = true
  }
  isolate {
    attempts = 3
  }
}

store "kafka" {
}

auth {
}
