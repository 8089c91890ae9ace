worker {
  listen = "localhost"
}
