worker {
  listen = "0.0.0.0:8083"
}
