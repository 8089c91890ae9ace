connector "c0" {
  sink   = "file"
  topics = ["t0"]
}
