connector = "a"
