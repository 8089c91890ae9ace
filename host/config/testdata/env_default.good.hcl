kafka "main" {
  bootstrap = split(",", env("NOPE", "a:9092,b:9092"))
}
