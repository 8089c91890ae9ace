worker {
}

worker {
}
