def greet():
    return "Hello!"


if __name__ == "__main__":
    print(greet())
