"""Language models: preparation of text, training on one GPU or many, evaluation, generation and Hugging Face's format."""
