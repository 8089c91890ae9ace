kafka "main" {
  client_id = "café"
}
