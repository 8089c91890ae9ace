locals {
  x = env("A", "b", "c")
}
