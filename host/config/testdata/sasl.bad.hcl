kafka "main" {
  bootstrap = ["127.0.0.1:9092"]
  sasl {
    mechanism = "SCRAM-SHA-521"
  }
}

kafka "b" {
  bootstrap = ["127.0.0.1:9092"]
  sasl {
    mechanism = "OAUTHBEARER"
    username  = "u"
  }
}

kafka "c" {
  bootstrap = ["127.0.0.1:9092"]
  sasl {
    mechanism = "GSSAPI"
  }
}
