connector "c2" {
  sink   = "file"
  topics = ["t2"]
  config {
    password = env("NOPE")
  }
}
