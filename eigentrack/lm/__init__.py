"""Language models: text → packed tokens → training on one GPU or many → perplexity by position → Hugging Face."""
