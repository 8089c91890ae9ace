# Payments to a web service, one request for each record, one connector for
# each region. Needs PAYMENTS_TOKEN.

kafka "payments" {
  bootstrap = split(",", env("KAFKA_BOOTSTRAP", "127.0.0.1:9092"))
}

connector "payments-to-http" {
  for_each = {
    eu = "https://eu.payments.example.com"
    us = "https://us.payments.example.com"
  }

  sink           = "http"
  kafka          = kafka.payments
  topics         = ["payments.${each.key}"]
  group_protocol = "share"
  parallelism    = 8
  put_timeout    = "30s"

  value {
    converter = "json"
  }

  retry {
    initial     = "500ms"
    max         = "30s"
    max_elapsed = "10m"
  }

  dead_letter_queue {
    topic = "dlq.payments.${each.key}"
  }

  config {
    url     = "${each.value}/payments/{key}"
    method  = "POST"
    headers = { Authorization = secret("Bearer ${env("PAYMENTS_TOKEN")}") }
    body    = "single"
    timeout = "10s"
  }
}
