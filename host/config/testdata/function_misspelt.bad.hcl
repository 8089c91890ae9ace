locals {
  x = uper("a")
}
