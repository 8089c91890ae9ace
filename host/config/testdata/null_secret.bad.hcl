kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
  sasl {
    mechanism = "SCRAM-SHA-512"
    username  = "u"
    password  = null
  }
}
