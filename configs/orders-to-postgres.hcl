# Orders into a PostgreSQL table, by a share group: more tasks than partitions
# may work on them. Needs KAFKA_PASSWORD and ORDERS_DSN, such as
# postgres://orders:password@db.example.com/orders, and the table:
#
#   CREATE TABLE orders (id bigint PRIMARY KEY, customer text, item text,
#     quantity int, price numeric, updated_at timestamptz)

kafka "orders" {
  bootstrap = ["127.0.0.1:9092"]
  tls {
    ca_file = "ca.pem" # beside this file; cert_file and key_file for mutual TLS
  }
  sasl {
    mechanism = "SCRAM-SHA-512"
    username  = "sluice"
    password  = env("KAFKA_PASSWORD")
  }
}

locals {
  orders_dsn = env("ORDERS_DSN")
}

connector "orders-to-postgres" {
  sink        = "jdbc"
  kafka       = kafka.orders
  topics      = ["orders"]
  tasks       = 2 # in a share group: sets of sink instances that share a member
  parallelism = 4 # sink instances per task

  group_protocol     = "share"
  group_id           = "connect-orders-to-postgres" # this is the default
  auto_offset_reset  = "earliest"                   # so is this
  delivery_semantics = "at-least-once"

  share {
    acknowledgement_mode     = "explicit"
    acquisition_lock_timeout = "30s"
    max_delivery_count       = 5
  }

  batch {
    max_records = 500
    max_bytes   = "8MiB"
    max_wait    = "50ms"
  }

  key {
    converter = "string"
  }
  value {
    converter = "json" # options of the converter stand beside it
  }

  dead_letter_queue {
    topic              = "dlq.orders"
    replication_factor = 3
  }

  config {
    dsn     = local.orders_dsn
    table   = "orders"
    mode    = "upsert"
    pk      = { source = "value", fields = ["id"] }
    version = "updated_at" # a share group keeps no order: the newer row wins by this column
  }
}
