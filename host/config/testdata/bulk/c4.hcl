connector "c4" {
  sink   = "file"
  topics = ["t4"]
  tasks  = "two"
}
