locals {
  x = file("nowhere.txt")
}
