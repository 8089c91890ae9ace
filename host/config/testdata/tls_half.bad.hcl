kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
  tls {
    cert_file = "c.pem"
  }
}
