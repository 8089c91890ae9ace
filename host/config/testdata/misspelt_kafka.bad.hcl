kafka "main" {
  bootstrap_servers = ["127.0.0.1:9092"]
}
