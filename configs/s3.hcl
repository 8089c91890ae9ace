# Clicks into an S3 bucket: one object of JSON lines for each batch and key
# prefix. Big objects come from big batches, so this is a consumer group: a
# share group's window of open records would bound them.

kafka "clicks" {
  bootstrap = split(",", env("KAFKA_BOOTSTRAP", "127.0.0.1:9092"))
}

connector "clicks-to-s3" {
  sink           = "s3"
  kafka          = kafka.clicks
  topics_regex   = "clicks\\..*" # whole names; RE2
  group_protocol = "consumer"
  put_timeout    = "2m"

  batch {
    max_records = 50000
    max_bytes   = "64MiB"
    max_wait    = "1m"
  }

  value {
    converter = "json"
  }

  dead_letter_queue {
    topic = "dlq.clicks"
  }

  config {
    bucket      = env("CLICKS_BUCKET", "clicks")
    region      = "eu-central-1"
    key         = "{topic}/{timestamp:2006-01-02}/{partition}-{offset}.json.gz"
    format      = "json_lines"
    compression = "gzip"
    # Without access_key_id and secret_access_key the credentials come from
    # where AWS's tools find them.
    # endpoint   = "http://127.0.0.1:9000" for another S3 server,
    # path_style = true                    with most of them
  }
}
