plugin "Acme!" {
  version     = "about one"
  sha256      = "abc"
  env         = { "A=B" = "c" }
  processes   = 0
  inherit_env = ["[A"]
  sandbox {
    memory      = "64KiB"
    allow_hosts = ["api.example.com"]
  }
}
