"""The local page: four rooms to look at a language, its network, a training and its outcome. Extra: [explore]."""
