kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
}

connector "orders" {
  sink   = "file"
  topics = ["orders"]
  properties = {
    "tasks.max"                        = "3"
    "consumer.override.group.protocol" = "SHARE"
    "share.acquisition.lock.timeout.ms" = "45000"
    "errors.deadletterqueue.topic.name" = "dlq.orders"
    "consumer.override.auto.offset.reset" = "by_duration:PT36H"
    "value.converter" = "org.apache.kafka.connect.json.JsonConverter"
    "value.converter.schemas.enable" = "false"
  }
}
