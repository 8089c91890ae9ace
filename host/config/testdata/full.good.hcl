worker {
  id             = "w1"
  group_protocol = "share"
  plugin_path    = ["plugins", "/opt/sluice/plugins"]
  listen         = "[::1]:0"
  state_dir      = "state"
  memory         = "512MiB"
  stop_timeout   = "20s"
  value {
    converter = "json"
    schemas   = false
  }
}

locals {
  db     = env("ORDERS_DSN")
  region = "eu"
  topic  = "orders.${local.region}"
}

kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
  tls {
    ca_file   = "ca.pem"
    cert_file = "cert.pem"
    key_file  = "/etc/key.pem"
  }
  sasl {
    mechanism = "SCRAM-SHA-512"
    username  = "sluice"
    password  = env("KAFKA_PASSWORD")
  }
}

plugin "acme" {
  version     = "~> 1.2"
  sha256      = "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08"
  env         = { ACME_REGION = local.region, ACME_KEY = env("KAFKA_PASSWORD") }
  inherit_env = ["AWS_*"]
  processes   = 2
  sandbox {
    memory      = "64MiB"
    allow_hosts = ["api.acme.example:443"]
  }
}

connector "orders-to-postgres" {
  sink        = "jdbc"
  kafka       = kafka.main
  topics      = [local.topic]
  tasks       = 2
  parallelism = 4
  put_timeout = "20s"

  auto_offset_reset = "7d"
  isolation_level   = "read_committed"

  share {
    acquisition_lock_timeout = "30s"
    max_delivery_count       = 8
    max_record_locks         = 4000
  }
  batch {
    max_records = 500
    max_bytes   = "8MiB"
    max_wait    = "50ms"
  }
  retry {
    initial     = "1s"
    max         = "10s"
    max_elapsed = "1m"
  }
  breaker {
    failures = 5
    max      = "30s"
  }
  key {
    converter = "string"
  }
  dead_letter_queue {
    topic              = "dlq.orders"
    broker             = true
    partitions         = 3
    replication_factor = 1
  }
  errors {
    tolerance = "none"
    log       = false
  }
  config {
    dsn     = local.db
    table   = "orders"
    mode    = "upsert"
    pk      = { source = "key", fields = ["id"] }
    version = "updated_at"
    token   = secret("s3cr3t-canary")
    header {
      name = "a"
    }
    header {
      name = "b"
    }
  }
}
