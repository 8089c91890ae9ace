# Audit events into one file a day, in the order of each partition: a classic
# consumer group keeps it, a share group does not.

kafka "audit" {
  bootstrap = split(",", env("KAFKA_BOOTSTRAP", "127.0.0.1:9092"))
}

connector "audit-to-file" {
  sink           = "file"
  kafka          = kafka.audit
  topics         = ["audit"]
  group_protocol = "consumer"
  tasks          = 2

  consumer {
    session_timeout = "45s"
    commit_interval = "1s"
  }

  value {
    converter = "json"
  }

  errors {
    tolerance = "none" # without a dead letter queue the first bad record stops its task
  }

  config {
    path    = "${path.module}/out/audit-{timestamp:2006-01-02}.jsonl"
    include = ["key", "timestamp", "partition", "offset"]
  }
}
